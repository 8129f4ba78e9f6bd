// Every public operation meets every fault at every store call, in memory.
import { faultLoops } from './loops.js';

faultLoops('memory', 4_500);
