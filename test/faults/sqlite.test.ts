// Every public operation meets every fault at every store call, on SQLite: each process has its own connection.
import { faultLoops } from './loops.js';

faultLoops('sqlite', 4_500);
