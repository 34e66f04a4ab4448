local run, fence, key, expected, ttl = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local v = redis.call('HMGET', session, 'c:' .. client, 'last', 'expires', 'newest', 'messages', 'bytes', 'ttl', 'keep', 'r:' .. run, 'k:' .. key)
local result = answered(v[1])
if result then return result end
local exists = live(v[2], v[3])
local last, messages, bytes, keep, lifetime = 0, 0, 0, 0, 0
local lowest, oldest = '', '0'
if exists then
	last, messages, bytes = tonumber(v[2]), tonumber(v[5]), tonumber(v[6])
	lifetime, keep = tonumber(v[7]), tonumber(v[8] or '0')
	if run ~= '' and v[9] then
		lowest, oldest = string.match(v[9], '^(%d+) (%d+) ')
		if fence < lowest then return reject(v[1], 'F') end
	end
	if key ~= '' and v[10] then
		if run ~= '' and fence > lowest then
			redis.call('HSET', session, 'r:' .. run, fence .. (v[9] and string.sub(v[9], 20) or ' 0 0'))
		end
		return reject(v[1], 'R ' .. v[10])
	end
end
local newest = exists and v[4] or '0'
if expected ~= '' and expected ~= newest then return reject(v[1], 'C ' .. newest) end
if not exists then reset() end

local first = last + 1
local i = 12
while i <= #ARGV do
	local n = tonumber(ARGV[i])
	last = last + 1
	redis.call('XADD', stream, last, unpack(ARGV, i + 1, i + n))
	i = i + n + 1
end
result = first .. ' ' .. last
local set = {'c:' .. client, number .. ' ' .. result, 'last', last, 'newest', last, 'messages', messages + last - first + 1, 'bytes', bytes + tonumber(ARGV[11]), 'updated', now}
local function add(name, value)
	set[#set + 1] = name
	set[#set + 1] = value
end
if not exists then
	add('created', now)
	add('rev', client .. '.' .. number)
end
if run ~= '' then add('r:' .. run, fence .. ' ' .. (oldest ~= '0' and oldest or first) .. ' ' .. last) end
if key ~= '' then add('k:' .. key, result) end
if ttl ~= '' then lifetime = tonumber(ttl) end
if ttl ~= '' or not exists then add('ttl', lifetime) end
local expires = lifetime > 0 and now + lifetime or 0
if expires > 0 or not exists or v[3] ~= '0' then add('expires', expires) end
redis.call('HSET', session, unpack(set))
if not v[1] then register(session) end
expire(expires, keep, messages == 0)
return result
