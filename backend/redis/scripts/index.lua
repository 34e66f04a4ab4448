-- Changes an entry of the index if its time is still the given one: to another time, or '' to remove it.
local time = redis.call('ZSCORE', KEYS[1], ARGV[1])
if time and tonumber(time) == tonumber(ARGV[2]) then
	if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
	return redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
end
return 0
