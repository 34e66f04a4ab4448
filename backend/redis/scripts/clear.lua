local v = redis.call('HMGET', session, 'c:' .. client, 'totals')
local result = answered(v[1])
if result then return result end
if not v[2] then return reject(v[1], '') end
reset()
note(v[1], '')
redis.call('PEXPIRE', session, grace)
return ''
