-- Makes a session of staged messages. Arguments: TTL, last sequence, newest message, number of messages, bytes.
local ttl, messages = tonumber(ARGV[6]), ARGV[9]
local v = redis.call('HMGET', session, 'c:' .. client, 'totals')
local result = answered(v[1])
if result then return result end
if parse(v[2]) then return reject(v[1], 'E') end
reset()
if messages ~= '0' then
	local kept = redis.call('HGETALL', session)
	redis.call('RENAME', KEYS[3], session)
	redis.call('RENAME', KEYS[4], stream)
	redis.call('HDEL', session, 'staged')
	if #kept > 0 then redis.call('HSET', session, unpack(kept)) end
end
local expires = ttl > 0 and now + ttl or 0
local keep = removal(expires, 0)
redis.call('HSET', session, 'created', ARGV[4], 'rev', client .. '.' .. number,
	'totals', join({ARGV[7], ARGV[8], messages, ARGV[10], ARGV[4], expires, ttl, keep}))
expire(keep)
return note(v[1], messages)
