-- Replaces a state if its version is the expected one. Arguments: that version, the value, the time of expiry,
-- the milliseconds until the server removes the state and, if there is a second key, those until it removes that.
-- The second key exists if a change with the same idempotency key was made.
local key, once = KEYS[1], KEYS[2]
local v = redis.call('HMGET', key, 'c:' .. client, 'version', 'value', 'expires')
local result = answered(v[1])
if result then return {'changed', result} end
local current = v[2] or '0'
if once and redis.call('EXISTS', once) == 1 then return {'repeated', current, v[3] or '', v[4] or '0'} end
if current ~= ARGV[4] then return {'conflict', current, v[3] or '', v[4] or '0'} end
local version = string.format('%.0f', tonumber(current) + 1)
redis.call('HSET', key, 'c:' .. client, number .. ' ' .. version, 'version', version, 'value', ARGV[5], 'expires', ARGV[6])
if not v[1] then register(key) end
if ARGV[7] ~= '0' then
	redis.call('PEXPIRE', key, ARGV[7])
elseif v[4] and v[4] ~= '0' then
	redis.call('PERSIST', key)
end
if once then redis.call('SET', once, version, 'PX', ARGV[8]) end
return {'changed', version}
