-- Makes a session of staged messages. Arguments: TTL, last sequence, newest message, number of messages, bytes.
local ttl, messages = tonumber(ARGV[6]), ARGV[9]
local v = redis.call('HMGET', session, 'c:' .. client, 'last', 'expires')
local result = answered(v[1])
if result then return result end
if live(v[2], v[3]) then return reject(v[1], 'E') end
reset()
if messages ~= '0' then
	local kept = redis.call('HGETALL', session)
	redis.call('RENAME', KEYS[3], session)
	redis.call('RENAME', KEYS[4], stream)
	redis.call('PERSIST', session)
	redis.call('PERSIST', stream)
	redis.call('HDEL', session, 'staged')
	if #kept > 0 then redis.call('HSET', session, unpack(kept)) end
end
local expires = ttl > 0 and now + ttl or 0
redis.call('HSET', session, 'last', ARGV[7], 'newest', ARGV[8], 'messages', messages, 'bytes', ARGV[10], 'created', now, 'updated', now,
	'ttl', ttl, 'expires', expires, 'rev', client .. '.' .. number)
expire(expires, 0, true)
return note(v[1], messages)
