// The verbs of Redis are written anew; their answers must not be told apart from those of memory.
import { describeOn, newStore } from '../engines.js';
import { sameAsMemory } from './same-as-memory.js';

describeOn('redis', 'redis', () => sameAsMemory(() => newStore('redis')));
