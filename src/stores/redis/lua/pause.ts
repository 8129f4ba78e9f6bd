/** Pauses: a set of the words of core/pauses.ts. */
export const paused = String.raw`
local AWAKE = byte('+')
local function pauses() return setOf(call('SMEMBERS', PAUSED)) end
local function isPaused(paused, queue)
  return paused[queue] or (paused['*'] and queue ~= 'lastout' and not paused['+' .. queue]) or false
end
`;
export const pause = String.raw`
local queue, paused = arg(), arg() == '1'
local words = pauses()
if queue == '*' then
  for word in pairs(words) do
    if not paused or byte(word, 1) == AWAKE then call('SREM', PAUSED, word) end
  end
  if paused then call('SADD', PAUSED, '*') end
elseif paused then
  call('SREM', PAUSED, '+' .. queue)
  call('SADD', PAUSED, queue)
else
  call('SREM', PAUSED, queue)
  if words['*'] and queue ~= 'lastout' then call('SADD', PAUSED, '+' .. queue) end
end
if paused then step.paused = true else step.ready['*'] = true end
return close()
`;
