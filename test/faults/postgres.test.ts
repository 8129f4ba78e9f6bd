// Every public operation meets every fault at every store call, on PostgreSQL: each process has its own connections.
import { faultLoops } from './loops.js';

faultLoops('postgres', 4_500);
