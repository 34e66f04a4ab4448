-- Adds copies of messages to the keys from which fork.lua makes a session. Arguments: the time in milliseconds
-- after which the server removes the keys, the sequence of the last message, and the number of the arguments with
-- the fields of runs, which follow; then the sequence, meta and body of each message.
local staged = tonumber(redis.call('HGET', KEYS[1], 'staged') or '0')
if staged >= tonumber(ARGV[2]) then return 0 end -- sent again
local runs = tonumber(ARGV[3])
for i = 4, 3 + runs, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = 4 + runs, #ARGV, 3 do redis.call('XADD', KEYS[2], ARGV[i], 'meta', ARGV[i + 1], 'body', ARGV[i + 2]) end
redis.call('HSET', KEYS[1], 'staged', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
