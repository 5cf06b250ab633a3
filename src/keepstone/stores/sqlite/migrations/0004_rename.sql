-- The project's own tenant, which holds API keys, under the project's new name. The blob spells the name of 0.1.
UPDATE scope SET tenant = 'keepstone.keys' WHERE tenant = CAST(x'7265636f6c6c656374' AS TEXT) || '.keys';
UPDATE chain SET tenant = 'keepstone.keys' WHERE tenant = CAST(x'7265636f6c6c656374' AS TEXT) || '.keys';

-- An archived record says so; 0.1 called it expired. The columns aside_at, aside_why and ticket keep their names.
UPDATE record SET status = 'archived' WHERE status = 'expired';
