-- Removes the messages of a run, those after a sequence, or those until a sequence. The result is their number
-- and the size of their bodies.
local mode, what, fence, rev = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local v = redis.call('HMGET', session, 'c:' .. client, 'last', 'expires', 'messages', 'bytes', 'newest', 'rev', 'r:' .. what)
local result = answered(v[1])
if result then return result end
local from, to
if not live(v[2], v[3]) then
	if mode ~= 'run' or fence == no_fence then return reject(v[1], '0 0') end
	reset()
	redis.call('HSET', session, 'last', 0, 'newest', 0, 'messages', 0, 'bytes', 0, 'created', now, 'updated', now, 'ttl', 0, 'expires', 0,
		'rev', client .. '.' .. number)
elseif mode == 'run' then
	if v[8] then
		local lowest
		lowest, from, to = string.match(v[8], '^(%d+) (%d+) (%d+)$')
		if fence < lowest then return reject(v[1], 'F') end
		if from == '0' then from = nil end
	end
elseif mode == 'after' then
	from, to = '(' .. what, '+'
else
	if v[7] ~= rev then return reject(v[1], 'X') end
	from, to = '-', what
end

local count, size, runs = 0, 0, {}
while from do
	local entries, ids = redis.call('XRANGE', stream, from, to, 'COUNT', 500), {}
	for _, entry in ipairs(entries) do
		local m = {}
		for i = 1, #entry[2], 2 do m[entry[2][i]] = entry[2][i + 1] end
		if mode ~= 'run' or m.run == what then
			ids[#ids + 1] = entry[1]
			size = size + #m.body
			if m.key then redis.call('HDEL', session, 'k:' .. m.key) end
			if m.run then runs[m.run] = true end
		end
	end
	if #ids > 0 then count = count + redis.call('XDEL', stream, unpack(ids)) end
	from = #entries == 500 and '(' .. entries[500][1] or nil
end
-- Runs without messages are forgotten, except their fences.
if mode == 'run' then
	runs = {}
	if fence ~= no_fence then
		redis.call('HSET', session, 'r:' .. what, fence .. ' 0 0')
	elseif v[8] then
		redis.call('HDEL', session, 'r:' .. what)
	end
end
for run in pairs(runs) do
	local lowest, oldest, newest = string.match(redis.call('HGET', session, 'r:' .. run) or '', '^(%d+) (%d+) (%d+)$')
	local all = mode == 'after' and tonumber(oldest or '0') > tonumber(what) or mode == 'until' and tonumber(newest or '0') <= tonumber(what)
	if lowest == no_fence and all then redis.call('HDEL', session, 'r:' .. run) end
end
if count > 0 then
	local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
	redis.call('HSET', session, 'messages', tonumber(v[4]) - count, 'bytes', tonumber(v[5]) - size,
		'newest', newest and string.match(newest[1], '^%d+') or 0, 'rev', client .. '.' .. number)
end
return note(v[1], count .. ' ' .. size)
