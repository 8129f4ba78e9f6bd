/**
 * Run once in a new database whose schema `lastout` has just been made: remembers what it looks like, and makes
 * `lastout_tests.reset()`, which makes it look so again. It answers false if somebody else is connected, or if the
 * schema is not what it was.
 */
export const resetSql = `
create schema lastout_tests;

create function lastout_tests.shape() returns text language sql as $$
  select md5(coalesce(string_agg(item, ',' order by item), '')) from (
    select relkind::text || relname as item from pg_class where relnamespace = 'lastout'::regnamespace
    union all
    select proname::text || md5(prosrc) from pg_proc where pronamespace = 'lastout'::regnamespace
  ) items
$$;

create table lastout_tests.remembered as select lastout_tests.shape() as shape;

do $$
declare t record; filled boolean;
begin
  for t in select relname from pg_class where relnamespace = 'lastout'::regnamespace and relkind = 'r' loop
    execute format('select exists (select 1 from lastout.%I)', t.relname) into filled;
    if filled then execute format('create table lastout_tests.%I as table lastout.%I', 'was_' || t.relname, t.relname); end if;
  end loop;
end $$;

create function lastout_tests.reset() returns boolean language plpgsql as $$
declare t record; filled boolean;
begin
  if exists (select 1 from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend')
    then return false; end if;
  for t in select nspname from pg_namespace
           where nspname not in ('lastout', 'lastout_tests', 'information_schema') and nspname not like 'pg\\_%'
  loop
    if t.nspname <> 'public' then execute format('drop schema %I cascade', t.nspname);
    elsif exists (select 1 from pg_class where relnamespace = 'public'::regnamespace) then
      drop schema public cascade;
      create schema public;
    end if;
  end loop;
  if to_regnamespace('lastout') is null or lastout_tests.shape() <> (select shape from lastout_tests.remembered)
    then return false; end if;
  perform set_config('session_replication_role', 'replica', true);
  for t in select oid, relname, to_regclass(format('lastout_tests.%I', 'was_' || relname)) as was
           from pg_class where relnamespace = 'lastout'::regnamespace and relkind = 'r'
  loop
    execute format('select exists (select 1 from lastout.%I)', t.relname) into filled;
    if filled and pg_relation_size(t.oid) > 200000 then execute format('truncate lastout.%I', t.relname);
    elsif filled then execute format('delete from lastout.%I', t.relname); end if;
    if t.was is not null then execute format('insert into lastout.%I overriding system value table %s', t.relname, t.was); end if;
  end loop;
  for t in select seqrelid, seqstart from pg_sequence join pg_class on pg_class.oid = seqrelid
           where relnamespace = 'lastout'::regnamespace
  loop
    perform setval(t.seqrelid::regclass, t.seqstart, false);
  end loop;
  return true;
end $$;
`;
