-- A change has the arguments: the client, the number of the change, and 1 if it may have been sent before.
-- A hash has the number and the result of the last change of each client in the field c:CLIENT.
local client, number, again = ARGV[1], ARGV[2], ARGV[3] == '1'
local max_clients = 16

-- answered returns the result of this change if the client has made it, or a later one.
local function answered(last)
	if last then
		local n, result = string.match(last, '^(%d+) (.*)$')
		if tonumber(n) >= tonumber(number) then return result end
	end
end

-- register adds the client to the clients of a hash, in place of the one that was added first.
local function register(key)
	local clients = {}
	for name in string.gmatch(redis.call('HGET', key, 'clients') or '', '%S+') do clients[#clients + 1] = name end
	clients[#clients + 1] = client
	if #clients > max_clients then redis.call('HDEL', key, 'c:' .. table.remove(clients, 1)) end
	redis.call('HSET', key, 'clients', table.concat(clients, ' '))
end
