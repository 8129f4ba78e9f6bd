/** Pause: a set of the queues that are paused; `*` stands for every queue but the library's own. */
export const pause = String.raw`
local queue, paused = arg(), arg() == '1'
if queue == '*' and not paused then call('DEL', PAUSED)
elseif paused then call('SADD', PAUSED, queue)
else call('SREM', PAUSED, queue) end
if paused then step.paused = true else step.ready['*'] = true end
return close()
`;
