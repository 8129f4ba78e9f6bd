/** A program that has made two temporary folders, tells where, and never ends: `node temp-child.js URL`. */
import { defineJob, open } from '../src/index.js';

const queue = await open(process.argv[2]!, { artifacts: 'memory' });
const scratch = defineJob('scratch', {
  async run({ tempDir }) {
    console.log(await tempDir(), await tempDir());
    await new Promise(() => undefined);
  },
});
await queue.work([scratch], { lease: '5s' });
await queue.enqueue(scratch, null);
