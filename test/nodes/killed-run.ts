/** Boots a machine, reports it, and waits to be killed. */
import { openNodes } from './rig.ts';

const rig = await openNodes((line) => process.stderr.write(`${line}\n`));
await rig.boot();
process.stdout.write(`${JSON.stringify({ id: rig.id, folder: rig.folder })}\n`);
setInterval(() => undefined, 60_000);
