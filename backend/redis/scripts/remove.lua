-- Removes the messages of a run, those after a sequence, or those until a sequence. Arguments: run, after or until; the
-- run or the sequence; the fence of the run; for until, the rev of the session. The result is the number of messages
-- and the size of their bodies.
local mode, what, fence, rev = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local v = redis.call('HMGET', session, 'c:' .. client, 'totals', 'rev', 'r:' .. what)
local result = answered(v[1])
if result then return result end
local last, newest, messages, bytes, updated, expires, ttl, keep = parse(v[2])
local from, to
if not last then
	if mode ~= 'run' or fence == no_fence then return reject(v[1], '0 0') end
	reset()
	redis.call('HSET', session, 'totals', '0 0 0 0 ' .. ARGV[4] .. ' 0 0 0', 'created', ARGV[4], 'rev', client .. '.' .. number)
elseif mode == 'run' then
	if v[4] then
		local lowest
		lowest, from, to = string.match(v[4], '^(%d+) (%d+) (%d+)$')
		if fence < lowest then return reject(v[1], 'F') end
		if from == '0' then from = nil end
	end
elseif mode == 'after' then
	from, to = '(' .. what, '+'
else
	if v[3] ~= rev then return reject(v[1], 'X') end
	from, to = '-', what
end

-- A batch has about 4 MiB.
local batch = math.max(1, math.min(500, math.floor(4194304 * (messages or 0) / math.max(1, bytes or 0))))
local count, size, runs = 0, 0, {}
while from do
	local entries, ids = redis.call('XRANGE', stream, from, to, 'COUNT', batch), {}
	for _, entry in ipairs(entries) do
		local key, run = string.match(entry[2][2], '^%-?%d+%z([^%z]*)%z([^%z]*)%z')
		if mode ~= 'run' or run == what then
			ids[#ids + 1] = entry[1]
			size = size + #entry[2][4]
			if key ~= '' then redis.call('HDEL', session, 'k:' .. key) end
			if run ~= '' then runs[run] = true end
		end
	end
	if #ids > 0 then count = count + redis.call('XDEL', stream, unpack(ids)) end
	from = #entries == batch and '(' .. entries[batch][1] or nil
end
-- Runs without messages are forgotten, except their fences.
if mode == 'run' then
	runs = {}
	if fence ~= no_fence then
		redis.call('HSET', session, 'r:' .. what, fence .. ' 0 0')
	elseif v[4] then
		redis.call('HDEL', session, 'r:' .. what)
	end
end
for run in pairs(runs) do
	local lowest, oldest, latest = string.match(redis.call('HGET', session, 'r:' .. run) or '', '^(%d+) (%d+) (%d+)$')
	local all = mode == 'after' and tonumber(oldest or '0') > tonumber(what) or mode == 'until' and tonumber(latest or '0') <= tonumber(what)
	if lowest == no_fence and all then redis.call('HDEL', session, 'r:' .. run) end
end
if count > 0 then
	local entry = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
	newest = entry and string.match(entry[1], '^%d+') or '0'
	redis.call('HSET', session, 'rev', client .. '.' .. number,
		'totals', join({last, newest, messages - count, bytes - size, updated, expires, ttl, keep}))
end
return note(v[1], join({count, size}))
