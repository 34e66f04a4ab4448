-- A transcript is a hash, and a stream with the sequences as ids. Further arguments: the time, and the time
-- between the expiry of a session and the removal of its keys, both in milliseconds. The field totals of the
-- hash has the last sequence, the newest message, the numbers of messages and bytes, the time of the last append, the
-- time of expiry, the TTL, and the time when the server removes the keys. 0 is none.
local session, stream = KEYS[1], KEYS[2]
local now, grace = tonumber(ARGV[4]), tonumber(ARGV[5])
local no_fence = '0000000000000000000'

-- join returns values with spaces in between. Numbers have all their digits.
local function join(values)
	for i, value in ipairs(values) do
		if type(value) == 'number' then values[i] = string.format('%.0f', value) end
	end
	return table.concat(values, ' ')
end

-- parse returns the totals of a session that exists and has not expired.
local function parse(totals)
	if not totals then return end
	local last, newest, messages, bytes, updated, expires, ttl, keep = string.match(totals, '^(%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+)$')
	if expires == '0' or tonumber(expires) > now then return last, newest, messages, bytes, updated, expires, ttl, keep end
end

-- reset removes the session, except the results of the last changes.
local function reset()
	local clients, kept = redis.call('HGET', session, 'clients'), {}
	for name in string.gmatch(clients or '', '%S+') do
		local last = redis.call('HGET', session, 'c:' .. name)
		if last then
			kept[#kept + 1] = 'c:' .. name
			kept[#kept + 1] = last
		end
	end
	redis.call('UNLINK', session, stream)
	if clients then redis.call('HSET', session, 'clients', clients, unpack(kept)) end
end

-- note stores the result of this change. last is the number of the client's previous one.
local function note(last, result)
	local missing = redis.call('EXISTS', session) == 0
	redis.call('HSET', session, 'c:' .. client, number .. ' ' .. result)
	if not last then register(session) end
	if missing then redis.call('PEXPIRE', session, grace) end
	return result
end

-- reject returns the result of a change without effect. It stores the result if the change may be executed again.
local function reject(last, result)
	if again then note(last, result) end
	return result
end

-- removal returns the time when the server removes the keys: some time after the session expires at a time. It is
-- the previous one if that suffices.
local function removal(expires, keep)
	if expires == 0 then return 0 end
	return keep >= expires + grace / 2 and keep or expires + grace
end

-- expire makes the server remove the keys at a time.
local function expire(keep)
	for _, key in ipairs({session, stream}) do
		if keep > 0 then redis.call('PEXPIRE', key, string.format('%.0f', keep - now)) else redis.call('PERSIST', key) end
	end
end
