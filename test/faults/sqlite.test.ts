// Every public operation meets every way to fail at every store call, on SQLite: each process has its own connection.
import { faultLoops } from './loops.js';

faultLoops('sqlite', 1_200, 'each way');
