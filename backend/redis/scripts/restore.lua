-- Adds messages of another store. Arguments: the times of creation, of the last append and of expiry, the TTL, the size
-- of the bodies, and the number of the arguments with the runs of the messages and their first and last
-- sequences, which follow; then the sequence, meta and body of each message.
local expires, ttl, size, runs = ARGV[8], ARGV[9], ARGV[10], tonumber(ARGV[11])
local v = redis.call('HMGET', session, 'c:' .. client, 'totals')
local result = answered(v[1])
if result then return result end
local last, _, messages, bytes, _, _, _, keep = parse(v[2])
local start = 12 + runs
if last and tonumber(last) >= tonumber(ARGV[start]) then return reject(v[1], 'C ' .. last) end
if not last then
	reset()
	messages, bytes, keep = '0', '0', '0'
	redis.call('HSET', session, 'created', ARGV[6], 'rev', client .. '.' .. number)
end
for i = start, #ARGV, 3 do redis.call('XADD', stream, ARGV[i], 'meta', ARGV[i + 1], 'body', ARGV[i + 2]) end
for i = 12, start - 1, 3 do
	local fence, oldest = string.match(redis.call('HGET', session, 'r:' .. ARGV[i]) or no_fence .. ' 0', '^(%d+) (%d+)')
	if oldest == '0' then oldest = ARGV[i + 1] end
	redis.call('HSET', session, 'r:' .. ARGV[i], fence .. ' ' .. oldest .. ' ' .. ARGV[i + 2])
end
local newest = ARGV[#ARGV - 2]
local removed = removal(tonumber(expires), tonumber(keep))
redis.call('HSET', session, 'totals', join({newest, newest, messages + (#ARGV - start + 1) / 3, bytes + size, ARGV[7], expires, ttl, removed}))
expire(removed)
return note(v[1], '')
