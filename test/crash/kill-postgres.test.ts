// Workers that are killed, stopped and blocked, on PostgreSQL.
import { describeOn } from '../engines.js';
import { killTests } from './kill.js';

describeOn('postgres', 'postgres', () => killTests('postgres'));
