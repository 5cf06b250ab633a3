-- ARGV: ttl, field, new token, expected token or '', window or '', maximum bytes.
local token = redis.call('HGET', KEYS[1], 'token')
if ARGV[4] ~= '' and token ~= ARGV[4] then return 0 end
local size = tonumber(redis.call('HGET', KEYS[1], 'bytes') or 0) - redis.call('HSTRLEN', KEYS[1], ARGV[2]) + #ARGV[5]
if size > tonumber(ARGV[6]) then
    redis.call('DEL', KEYS[1])
    token, size = false, #ARGV[5]
end
if ARGV[5] == '' then redis.call('HDEL', KEYS[1], ARGV[2]) end
redis.call('HSET', KEYS[1], 'token', token or ARGV[3], 'bytes', size)
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], ARGV[2], ARGV[5]) end
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1
