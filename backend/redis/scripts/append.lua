-- Appends messages. Arguments: size of the bodies, run, fence, idempotency key, expected sequence or '', TTL in
-- milliseconds or '' to keep it; then the fields meta and body of each message.
local size, run, fence, key, expected, ttl = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local v
if run == '' and key == '' then
	v = redis.call('HMGET', session, 'c:' .. client, 'totals')
elseif key == '' then
	v = redis.call('HMGET', session, 'c:' .. client, 'totals', 'r:' .. run)
else
	v = redis.call('HMGET', session, 'c:' .. client, 'totals', 'r:' .. run, 'k:' .. key)
end
local result = answered(v[1])
if result then return result end
local last, newest, messages, bytes, _, _, lifetime, keep = parse(v[2])
local oldest = '0'
if last then
	if run ~= '' and v[3] then
		local lowest
		lowest, oldest = string.match(v[3], '^(%d+) (%d+)')
		if fence < lowest then return reject(v[1], 'F') end
		if key ~= '' and v[4] and fence > lowest then redis.call('HSET', session, 'r:' .. run, fence .. string.sub(v[3], 20)) end
	elseif key ~= '' and v[4] and fence ~= no_fence then
		redis.call('HSET', session, 'r:' .. run, fence .. ' 0 0')
	end
	if key ~= '' and v[4] then return reject(v[1], 'R ' .. v[4]) end
end
if expected ~= '' and expected ~= (newest or '0') then return reject(v[1], 'C ' .. (newest or '0')) end
if not last then
	reset()
	last, messages, bytes, lifetime, keep = '0', '0', '0', '0', '0'
end

local seq = tonumber(last)
local first = join({seq + 1})
for i = 12, #ARGV, 2 do
	seq = seq + 1
	last = join({seq})
	redis.call('XADD', stream, last, 'meta', ARGV[i], 'body', ARGV[i + 1])
end
if ttl ~= '' then lifetime = ttl end
local expires, removed = 0, tonumber(keep)
if lifetime ~= '0' then expires = now + tonumber(lifetime) end
removed = removal(expires, removed)
result = first .. ' ' .. last
local total = messages + (#ARGV - 11) / 2
local set = {
	'c:' .. client, number .. ' ' .. result,
	'totals', join({last, last, total, bytes + size, ARGV[4], expires, lifetime, removed}),
}
if run ~= '' then
	set[5] = 'r:' .. run
	set[6] = fence .. ' ' .. (oldest ~= '0' and oldest or first) .. ' ' .. last
end
if key ~= '' then
	set[#set + 1] = 'k:' .. key
	set[#set + 1] = result
end
if not newest then
	set[#set + 1] = 'created'
	set[#set + 1] = ARGV[4]
	set[#set + 1] = 'rev'
	set[#set + 1] = client .. '.' .. number
end
redis.call('HSET', session, unpack(set))
if not v[1] then register(session) end
if removed ~= tonumber(keep) or removed > 0 and messages == '0' then expire(removed) end
return result
