// SQLite and memory share their verbs; their tables must not be told apart.
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { sameAsMemory } from './same-as-memory.js';

sameAsMemory(() => sqliteStore({ file: ':memory:' }));
