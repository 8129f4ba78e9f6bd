/** Cards: what each worker takes. A card lives as long as its worker is heard of. */
export const keepCard = String.raw`
local function keepCard(owner, leaseMs, card, hasClaims)
  if card ~= '' then
    call('HSET', CARD, owner, card)
    call('ZADD', CARD_DUE, now + leaseMs, owner)
  elseif not hasClaims and call('ZREM', CARD_DUE, owner) == 1 then
    call('HDEL', CARD, owner)
  end
end
`;
export const sweepCards = String.raw`
local function sweepCards()
  local over = call('ZRANGEBYSCORE', CARD_DUE, '-inf', now, 'LIMIT', 0, 500)
  spread('ZREM', CARD_DUE, over)
  spread('HDEL', CARD, over)
end
`;
/** Owner, card and due date of each that lives, in turn. */
export const cards = String.raw`
local function livingCards()
  local living = {}
  local due = call('ZRANGEBYSCORE', CARD_DUE, '(' .. whole(now), '+inf', 'WITHSCORES')
  for i = 1, #due, 2 do
    local card = call('HGET', CARD, due[i])
    if card then living[#living + 1] = { due[i], card, whole(tonumber(due[i + 1])) } end
  end
  return living
end
`;
export const readCards = String.raw`
return livingCards()
`;
