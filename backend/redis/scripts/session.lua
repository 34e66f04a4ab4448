-- A transcript is a hash and a stream, whose ids are the sequences. Further arguments: the time, and the time
-- between the expiry of a session and the removal of its keys, both in milliseconds.
local session, stream = KEYS[1], KEYS[2]
local now, grace = tonumber(ARGV[4]), tonumber(ARGV[5])
local no_fence = string.rep('0', 19)

local function live(last, expires)
	local at = tonumber(expires or '0')
	return last and (at == 0 or at > now)
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

-- note stores the result of this change. last is that of the client's previous one.
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

-- expire makes the server remove the keys a while after the session has expired, keep being the time of the
-- removal so far. It is called anew for a stream that may be new.
local function expire(at, keep, new)
	if at > 0 and (new or keep < at + grace / 2) then
		redis.call('PEXPIRE', session, at + grace - now)
		redis.call('PEXPIRE', stream, at + grace - now)
		redis.call('HSET', session, 'keep', at + grace)
	elseif at == 0 and keep > 0 then
		redis.call('PERSIST', session)
		redis.call('PERSIST', stream)
		redis.call('HSET', session, 'keep', 0)
	end
end
