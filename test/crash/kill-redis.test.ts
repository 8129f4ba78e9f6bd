// Workers that are killed, stopped and blocked, on Redis.
import { describeOn } from '../engines.js';
import { killTests } from './kill.js';

describeOn('redis', 'redis', () => killTests('redis'));
