// Every public operation meets every fault at every store call, on Redis: each process has its own connections.
import { faultLoops } from './loops.js';

faultLoops('redis', 4_500);
