import { beforeEach, describe, expect, it } from 'vitest';
import { openWorld, requestsOf, type Agent, type IdentityWorld } from '../../controllers/identity/testing/world.ts';
import type { Disk } from '../testing/inodes.ts';
import type { DiskHooks } from '../testing/disk.ts';

const HOUR = 3_600_000;
const AGENT = 'kubenode:machine:web:a';

let world: IdentityWorld;
beforeEach(async () => {
  world = await openWorld();
  await world.make();
  world.lead();
  return () => world.close();
});

const admitted = (agent: Agent): Promise<true> => world.until('the agent is admitted', async () => (await agent.whoIs()) === AGENT);

interface File {
  kind: string;
  key: string;
  certificate: string;
}

function fileOf(disk: Disk, path: string): File | undefined {
  const inode = disk.inodes.get(disk.find(path, true) ?? -1);
  return inode?.kind === 'file' ? (JSON.parse(inode.data.toString()) as File) : undefined;
}
const modeOf = (path: string): number | undefined => {
  const inode = world.disk.inodes.get(world.disk.find(path, true) ?? -1);
  return inode?.kind === 'file' ? inode.mode : undefined;
};
const CURRENT = '/state/identity/current.json';

/** Lets so many things happen, and then ends the process: nothing it does afterwards has any effect. */
function deadAfter(count: number): { hooks: DiskHooks; request: () => void; died: () => boolean } {
  let left = count;
  const step = (): void => {
    if (left-- <= 0) throw new Error('the process is dead');
  };
  return { hooks: { before: () => step() }, request: step, died: () => left < 0 };
}

describe('an agent that is killed', () => {
  it('at any change of its disk or request of its admission is admitted by the next process, with one request', async () => {
    let kills = 0;
    for (let at = 0; ; at++) {
      await world.close();
      world = await openWorld();
      await world.make();
      world.lead();
      const dying = deadAfter(at);
      world.onRequest = dying.request;
      const first = world.start(dying.hooks);
      const done = (): boolean => dying.died() || first.log.lines.some(({ message }) => message.includes('has its identity'));
      await world.until('it dies, or is done', done);
      if (!dying.died()) break;
      kills++;
      await first.stop();
      world.onRequest = () => undefined;
      // Half the time the machine loses power with it.
      if (at % 2 === 0) world.disk = world.disk.darkest();
      await admitted(world.start());
      expect((await requestsOf(world)).length, `killed at step ${at}`).toBe(1);
    }
    expect(kills).toBeGreaterThan(12);
    process.stdout.write(`agent: killed at ${kills} steps of its admission\n`);
  }, 600_000);

  it('at any step of a renewal has the old identity or the new one, whole, and renews', async () => {
    let kills = 0;
    for (let at = 0; ; at++) {
      await world.close();
      world = await openWorld();
      await world.make();
      world.lead();
      const before = world.start();
      await admitted(before);
      await before.stop();
      await world.editStatus({ agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } });
      const old = fileOf(world.disk, CURRENT);
      await world.clock.advance(17.5 * HOUR);
      const dying = deadAfter(at);
      world.onRequest = dying.request;
      const first = world.start(dying.hooks);
      const renewed = (): boolean => fileOf(world.disk, CURRENT)?.certificate !== old?.certificate;
      await world.until(
        'it dies, or has renewed',
        () => dying.died() || first.log.lines.some(({ message }) => message.includes('has its')),
      );
      await first.stop();
      world.onRequest = () => undefined;
      if (!dying.died()) break;
      kills++;
      world.disk = world.disk.darkest();
      const next = world.start();
      expect(await next.whoIs(), `killed at step ${at}`).toBe(AGENT);
      await world.until(`it renews after a kill at step ${at}`, renewed, HOUR);
      expect(await next.whoIs()).toBe(AGENT);
      expect(world.events.filter(({ type }) => type === 'Warning')).toEqual([]);
    }
    expect(kills).toBeGreaterThan(10);
    process.stdout.write(`agent: killed at ${kills} steps of a renewal\n`);
  }, 600_000);
});

describe('an agent', () => {
  it('keeps its key to itself', async () => {
    const agent = world.start();
    await admitted(agent);
    const { key } = fileOf(world.disk, CURRENT) ?? { key: '' };
    expect(key).toContain('PRIVATE KEY');
    expect(modeOf(CURRENT)).toBe(0o600);
    expect(JSON.stringify(agent.log.lines)).not.toContain('PRIVATE KEY');
    expect(JSON.stringify(await requestsOf(world))).not.toContain('PRIVATE');
  });

  it('takes no file of another machine, or that is torn, for its identity', async () => {
    await admitted(world.start());
    const inode = world.disk.inodes.get(world.disk.find(CURRENT, true) ?? -1);
    if (inode?.kind !== 'file') throw new Error('there is no identity');
    for (const text of ['{"kind":', JSON.stringify({ ...JSON.parse(inode.data.toString()), machineUID: 'another' }), '[]', '7']) {
      inode.data = Buffer.from(text);
      const next = world.start();
      await world.until('it reports that', () => next.log.lines.some(({ message }) => message.includes('not admitted')));
      await next.stop();
    }
  });

  it('whose every request is refused for hours asks seldom, and is itself again when the server is', async () => {
    const agent = world.start();
    await admitted(agent);
    const before = world.requests.length;
    world.onRequest = () => {
      throw new Error('connection refused');
    };
    await world.pass(30 * HOUR);
    // Half of that time its renewal was due.
    expect(world.requests.length - before).toBeLessThan(1500);
    world.onRequest = () => undefined;
    await world.editStatus({ agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } });
    await admitted(agent);
  });

  it('keeps requests waiting while it is being admitted', async () => {
    const agent = world.start();
    let status: number | undefined;
    void agent.identity.transport({ method: 'GET', path: '/version' }).then((answer) => (status = answer.status));
    await world.until('the request is answered', () => status !== undefined);
    expect(status).toBe(200);
  });
});
