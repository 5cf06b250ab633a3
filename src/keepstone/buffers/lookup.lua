-- ARGV: ttl, field, new token. Returns the scope's token and the window.
local token = redis.call('HGET', KEYS[1], 'token')
if not token then
    token = ARGV[3]
    redis.call('HSET', KEYS[1], 'token', token)
    if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
end
return {token, redis.call('HGET', KEYS[1], ARGV[2])}
