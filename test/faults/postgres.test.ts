// Every public operation meets every way to fail at every store call, on PostgreSQL: each process has its own connections.
import { faultLoops } from './loops.js';

faultLoops('postgres', 1_200, 'each way');
