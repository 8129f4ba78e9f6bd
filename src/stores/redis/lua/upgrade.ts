/**
 * The version of the layout: the field `layout` of `n`; none is version 1. An upgrade leads from one version to the next, in
 * parts that are bounded, and may be done again: data that were lost and written anew have no version.
 */

/** Rows that a part looks at, more or less. */
const partRows = 1_000;

/** All changes since 0.1.0: a job says which retry was made of it last, and whether a newer one has replaced it. */
const second = `function()
  local reply = call('HSCAN', JOB, call('HGET', COUNTERS, 'upgraded') or '0', 'COUNT', ${partRows})
  for i = 1, #reply[2], 2 do
    local row = not rows.isPlain(reply[2][i + 1]) and tables.stored(reply[2][i])
    if row and row.state == 'failed' and row.error == ending.replaced and not row.replaced then
      row.replaced = true
      finished.countReplaced(row, 1)
      tables.save(row)
    end
    local old = row and row.retryOf and tables.stored(row.retryOf)
    if old and old.state then
      local known = old.retriedAs and tables.stored(old.retriedAs)
      if not known or known.seq < row.seq then finished.setRetried(old, row.id) end
    end
  end
  if reply[1] == '0' then call('HDEL', COUNTERS, 'upgraded') else call('HSET', COUNTERS, 'upgraded', reply[1]) end
  return reply[1] == '0'
end`;

/** From each released version to the next: a function that does a part, and answers whether all is done. */
const upgrades: readonly string[] = [second];

/** The version that these scripts read and write. */
export const layoutVersion = upgrades.length + 1;

/** One part of what is left to do; answers the version that is there then. */
export const upgrade = String.raw`
local upgrades = { ${upgrades.join(', ')} }
local version = tonumber(call('HGET', COUNTERS, 'layout')) or 1
if version <= #upgrades and upgrades[version]() then
  version = version + 1
  call('HSET', COUNTERS, 'layout', version)
end
close()
return version
`;
