-- Adds copies of messages to the keys from which fork.lua makes a session. Arguments: the time in milliseconds
-- after which the server removes the keys, the sequence of the last message, and the number of the arguments with
-- the fields of runs, which follow; then for each message the number of its arguments, its sequence and its fields.
local staged = tonumber(redis.call('HGET', KEYS[1], 'staged') or '0')
if staged >= tonumber(ARGV[2]) then return 0 end -- sent again
local runs = tonumber(ARGV[3])
for i = 4, 3 + runs, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
local i = 4 + runs
while i <= #ARGV do
	local n = tonumber(ARGV[i])
	redis.call('XADD', KEYS[2], unpack(ARGV, i + 1, i + n))
	i = i + n + 1
end
redis.call('HSET', KEYS[1], 'staged', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
