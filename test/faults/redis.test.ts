// Every public operation meets every way to fail at every store call, on Redis: each process has its own connections.
import { faultLoops } from './loops.js';

faultLoops('redis', 1_200, 'each way');
