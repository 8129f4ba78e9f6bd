/**
 * The version of the layout: the field `layout` of `n`; none is version 1. An upgrade leads from one version to the next, in
 * parts that are bounded, and may be done again: data that were lost and written anew have no version.
 */

/** From each released version to the next: a function that does a part, and answers whether all is done. */
const upgrades: readonly string[] = ['function() return true end'];

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
