// Every public operation meets a fault at every store call, the ways to fail in turn, on PostgreSQL: each process has its own connections.
import { faultLoops } from './loops.js';

faultLoops('postgres', 400, 'two ways');
