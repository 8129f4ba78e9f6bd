// Workers that are killed, stopped and blocked, on SQLite.
import { describeOn } from '../engines.js';
import { killTests } from './kill.js';

describeOn('sqlite', 'sqlite', () => killTests('sqlite'));
