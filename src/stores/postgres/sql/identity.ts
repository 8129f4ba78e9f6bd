/** The identity of the store, and the server and database in which it got it. */
import { readCommitted } from './settings.js';

const random = `substr(replace(gen_random_uuid()::text, '-', ''), 1, 20)`;

/** Besides the one of the schema, which callers' transactions are compared by and which never changes. */
export const newIdentity = (s: string): string => `
insert into ${s}.meta values ('store', ${random});
`;

export const identity = (s: string): string => `
-- The number of the server, which its standbys share, and that of the database; '' where this role may not know the first.
create function ${s}.here() returns text language plpgsql stable as $$
declare
  v_database text := (select '/' || d.oid from pg_database d where d.datname = current_database());
begin
  return (select c.system_identifier from pg_control_system() c) || v_database;
exception when insufficient_privilege then return v_database;
end $$;

-- At each opening: notes where this is, unless it is noted, and gives the store a new identity where that is asked for.
create function ${s}.identify_v1(p_new boolean) returns void language plpgsql as $$
begin
  ${readCommitted()}
  if p_new then
    update ${s}.meta m set value = ${random} where m.name = 'store';
    insert into ${s}.meta values ('place', ${s}.here()) on conflict (name) do update set value = excluded.value;
  elsif current_setting('transaction_read_only') = 'off' then
    insert into ${s}.meta values ('place', ${s}.here()) on conflict (name) do nothing;
  end if;
end $$;

create function ${s}.read_identity_v1() returns text language plpgsql stable as $$
begin
  return (select m.value from ${s}.meta m where m.name = 'store');
end $$;
`;
