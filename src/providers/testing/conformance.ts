import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isCoded } from '../../api/errors.ts';
import { PROVIDER_ERRORS, type InfraProvider, type InstanceRequest, type NodeBootstrap } from '../../api/provider.ts';

/** What a provider brings so that the suite can check its contract. */
export interface ProviderHarness {
  /**
   * A process of the provider, over the same infrastructure as all others of this harness. With `dieAt` it dies at that write, from 1,
   * once: the write does not happen and the call rejects.
   */
  open(dieAt?: number): InfraProvider;
  /** The infrastructure carries out what it was asked: it boots, it cuts power, it deletes. */
  progress(): Promise<void>;
  /** How often its power was cycled. */
  cyclesOf(providerID: string): Promise<number>;
  /** What the node would find to come up with; undefined: nothing whole. */
  bootstrapOf(providerID: string): Promise<NodeBootstrap | undefined>;
  /** Makes it impossible to know the state of one instance. */
  hideOne(providerID: string): Promise<void>;
  /** The infrastructure cannot be reached at all. */
  cutOff(): Promise<void>;
  end(): Promise<void>;
}

const MOST_WRITES = 40;
const { signal } = new AbortController();

const request = (machineUID: string): InstanceRequest => ({
  machineUID,
  namespace: 'web',
  name: `web-${machineUID}`,
  config: {},
  failureDomain: 'h',
});
const bootstrap = (providerID: string, token = 'secret'): NodeBootstrap => ({
  server: 'https://127.0.0.1:6443',
  certificateAuthority: 'PEM',
  token,
  machine: { namespace: 'web', name: 'web-1', uid: '1' },
  providerID,
});

async function ensure(provider: InfraProvider, machineUID: string, token?: string): Promise<string> {
  const wanted = request(machineUID);
  const { providerID } = await provider.ensure(wanted, bootstrap(provider.providerIDOf(wanted), token), signal);
  return providerID;
}

async function listed(provider: InfraProvider): Promise<string[]> {
  return (await provider.list(signal)).map((each) => each.providerID).toSorted();
}

/** The contract of `InfraProvider`. Every provider runs it; none is used that fails it. */
export function providerConformance(name: string, begin: () => Promise<ProviderHarness>): void {
  describe(`provider ${name}`, () => {
    let harness: ProviderHarness;
    beforeEach(async () => {
      harness = await begin();
    });
    afterEach(() => harness.end());

    async function deleteWholly(provider: InfraProvider, providerID: string): Promise<void> {
      for (let tries = 0; tries < 5; tries++) {
        if ((await provider.delete(providerID, signal)) === 'gone') return;
        await harness.progress();
      }
      throw new Error(`${providerID} is not gone`);
    }

    it('knows the ID of an instance before it is made', async () => {
      const provider = harness.open();
      expect(await ensure(provider, 'uid-1')).toBe(provider.providerIDOf(request('uid-1')));
      expect(provider.providerIDOf(request('uid-2'))).not.toBe(provider.providerIDOf(request('uid-1')));
    });

    it('makes one instance for a Machine UID, however often and by however many it is asked', async () => {
      const [one, other] = [harness.open(), harness.open()];
      const ids = await Promise.all([ensure(one, 'uid-1'), ensure(other, 'uid-1'), ensure(one, 'uid-1')]);
      await harness.progress();
      expect(await ensure(other, 'uid-1')).toBe(ids[0]);
      expect(await listed(one)).toEqual([ids[0]]);
      expect(await harness.bootstrapOf(ids[0])).toEqual(bootstrap(ids[0]));
    });

    it('shows what was made, by get and by list, and that it comes up', async () => {
      const provider = harness.open();
      const [one, two] = [await ensure(provider, 'uid-1'), await ensure(provider, 'uid-2')];
      expect((await provider.get(one, signal))?.state).toBe('Pending');
      await harness.progress();
      expect(await listed(provider)).toEqual([one, two].toSorted());
    });

    it('gives a node that is ensured again the new bootstrap', async () => {
      const provider = harness.open();
      const id = await ensure(provider, 'uid-1', 'first');
      await ensure(provider, 'uid-1', 'second');
      expect((await harness.bootstrapOf(id))?.token).toBe('second');
    });

    it('may die at any write of ensure: there is one instance or none, never half of one, and the next ensure makes it whole', async () => {
      let died = 0;
      for (let at = 1; at <= MOST_WRITES; at++) {
        const uid = `uid-${at}`;
        const dying = harness.open(at);
        let isDead = false;
        await ensure(dying, uid).catch(() => {
          isDead = true;
          died++;
        });
        const next = harness.open();
        const id = next.providerIDOf(request(uid));
        const found = await next.get(id, signal);
        const whole = await harness.bootstrapOf(id);
        expect(whole === undefined ? found : undefined, `an instance without bootstrap after dying at write ${at}`).toBeUndefined();
        expect(await ensure(next, uid)).toBe(id);
        expect((await listed(next)).filter((each) => each === id)).toEqual([id]);
        expect(await harness.bootstrapOf(id)).toEqual(bootstrap(id));
        if (!isDead) break;
      }
      expect(died, 'writes that were died at').toBeGreaterThan(1);
      expect(died).toBeLessThan(MOST_WRITES);
    });

    it('reports that there is none only for what is not there', async () => {
      const provider = harness.open();
      const id = provider.providerIDOf(request('uid-1'));
      expect(await provider.get(id, signal)).toBeUndefined();
      await ensure(provider, 'uid-1');
      expect(await provider.get(id, signal)).toBeDefined();
    });

    it('deletes: gone is proof, and stays true', async () => {
      const provider = harness.open();
      const [id, other] = [await ensure(provider, 'uid-1'), await ensure(provider, 'uid-2')];
      await harness.progress();
      expect(await provider.delete(id, signal)).toBe('deleting');
      expect(await provider.get(id, signal)).toMatchObject({ state: 'Deleting' });
      await deleteWholly(provider, id);
      expect(await provider.get(id, signal)).toBeUndefined();
      expect(await provider.delete(id, signal)).toBe('gone');
      expect(await listed(harness.open())).toEqual([other]);
    });

    it('deletes what never was: gone', async () => {
      const provider = harness.open();
      expect(await provider.delete(provider.providerIDOf(request('uid-9')), signal)).toBe('gone');
    });

    it('never makes an instance for a Machine UID again once it reported gone', async () => {
      const provider = harness.open();
      const id = await ensure(provider, 'uid-1');
      await deleteWholly(provider, id);
      await expect(ensure(harness.open(), 'uid-1')).rejects.toSatisfy((error) => isCoded(error, PROVIDER_ERRORS));
      expect(await provider.get(id, signal)).toBeUndefined();
    });

    it('does not bring back by ensure what is being deleted', async () => {
      const provider = harness.open();
      const id = await ensure(provider, 'uid-1');
      await provider.delete(id, signal);
      await ensure(provider, 'uid-1').catch(() => undefined);
      await harness.progress();
      expect(await provider.get(id, signal)).toBeUndefined();
    });

    it('may die at any write of delete, and ends with gone', async () => {
      let died = 0;
      for (let at = 1; at <= MOST_WRITES; at++) {
        const id = await ensure(harness.open(), `uid-${at}`);
        let isDead = false;
        await harness
          .open(at)
          .delete(id, signal)
          .catch(() => {
            isDead = true;
            died++;
          });
        await deleteWholly(harness.open(), id);
        expect(await harness.open().get(id, signal)).toBeUndefined();
        if (!isDead) break;
      }
      expect(died, 'writes that were died at').toBeGreaterThan(0);
    });

    it('deletes what was only half made', async () => {
      for (let at = 1; at <= MOST_WRITES; at++) {
        const dying = harness.open(at);
        const isDead = await ensure(dying, `uid-${at}`).then(
          () => false,
          () => true,
        );
        const next = harness.open();
        const id = next.providerIDOf(request(`uid-${at}`));
        await deleteWholly(next, id);
        expect(await next.get(id, signal)).toBeUndefined();
        if (!isDead) return;
      }
    });

    const powers = (provider: InfraProvider): boolean => {
      const can = (['reboot', 'stop', 'retire'] as const).filter((each) => provider[each] !== undefined).length;
      expect([0, 3], 'of reboot, stop and retire').toContain(can);
      return can > 0;
    };

    it('cycles the power once for an operation, however often and by however many it is asked', async () => {
      const [one, other] = [harness.open(), harness.open()];
      if (!powers(one)) return;
      const id = await ensure(one, 'uid-1');
      await harness.progress();
      await Promise.all([one.reboot?.(id, 'op-1', signal), other.reboot?.(id, 'op-1', signal)]);
      await harness.progress();
      await other.reboot?.(id, 'op-1', signal);
      await harness.progress();
      expect(await harness.cyclesOf(id)).toBe(1);
      await one.reboot?.(id, 'op-2', signal);
      await harness.progress();
      expect(await harness.cyclesOf(id)).toBe(2);
    });

    it('may die at any write of a power cycle, and repeated there is one', async () => {
      let died = 0;
      for (let at = 1; at <= MOST_WRITES; at++) {
        const id = await ensure(harness.open(), `uid-${at}`);
        await harness.progress();
        const dying = harness.open(at);
        if (!powers(dying)) return;
        let isDead = false;
        await dying.reboot?.(id, 'op-1', signal).catch(() => {
          isDead = true;
          died++;
        });
        // The infrastructure may come to it before or after the one who asks again.
        if (at % 2 === 0) await harness.progress();
        await harness.open().reboot?.(id, 'op-1', signal);
        await harness.progress();
        await harness.open().reboot?.(id, 'op-1', signal);
        await harness.progress();
        expect(await harness.cyclesOf(id), `cycles after dying at write ${at}`).toBe(1);
        if (!isDead) break;
      }
      expect(died, 'writes that were died at').toBeGreaterThan(0);
    });

    it('cuts the power: Stopped is proof, stays true, and ends with a power cycle', async () => {
      const provider = harness.open();
      if (!powers(provider)) return;
      const [id, other] = [await ensure(provider, 'uid-1'), await ensure(provider, 'uid-2')];
      await harness.progress();
      const before = (await provider.get(other, signal))?.state;
      await provider.stop?.(id, 'op-0', signal);
      expect((await provider.get(id, signal))?.state).not.toBe('Stopped');
      await harness.progress();
      expect((await provider.get(id, signal))?.state).toBe('Stopped');
      await harness.open().stop?.(id, 'op-0', signal);
      await harness.progress();
      expect((await provider.get(id, signal))?.state).toBe('Stopped');
      expect((await provider.get(other, signal))?.state).toBe(before);
      await provider.reboot?.(id, 'op-1', signal);
      await harness.progress();
      expect((await provider.get(id, signal))?.state).not.toBe('Stopped');
    });

    it('does not change the power for an operation that was retired, and keeps what it has done', async () => {
      const [provider, late] = [harness.open(), harness.open()];
      if (!powers(provider)) return;
      const id = await ensure(provider, 'uid-1');
      await harness.progress();
      for (const operation of ['op-0', 'op-1', 'op-1']) await provider.retire?.(id, operation, signal);
      await late.stop?.(id, 'op-0', signal);
      await late.reboot?.(id, 'op-1', signal);
      await harness.progress();
      expect((await provider.get(id, signal))?.state).not.toBe('Stopped');
      expect(await harness.cyclesOf(id)).toBe(0);
      await provider.stop?.(id, 'op-2', signal);
      await harness.progress();
      await provider.retire?.(id, 'op-2', signal);
      await harness.progress();
      expect((await provider.get(id, signal))?.state).toBe('Stopped');
      await provider.reboot?.(id, 'op-3', signal);
      await harness.progress();
      await late.stop?.(id, 'op-2', signal);
      await harness.progress();
      expect((await provider.get(id, signal))?.state).not.toBe('Stopped');
      expect(await harness.cyclesOf(id)).toBe(1);
      await provider.retire?.(provider.providerIDOf(request('uid-9')), 'op-4', signal);
    });

    it.each(['stop', 'retire'] as const)('may die at any write of %s, and repeated it is as if done once', async (what) => {
      let died = 0;
      for (let at = 1; at <= MOST_WRITES; at++) {
        const id = await ensure(harness.open(), `uid-${at}`);
        await harness.progress();
        const dying = harness.open(at);
        if (!powers(dying)) return;
        let isDead = false;
        await dying[what]?.(id, 'op-1', signal).catch(() => {
          isDead = true;
          died++;
        });
        if (at % 2 === 0) await harness.progress();
        const next = harness.open();
        await next[what]?.(id, 'op-1', signal);
        if (what === 'retire') await next.stop?.(id, 'op-1', signal);
        await harness.progress();
        expect((await next.get(id, signal))?.state === 'Stopped', `after dying at write ${at}`).toBe(what === 'stop');
        await next.retire?.(id, 'op-1', signal);
        await next.reboot?.(id, 'op-2', signal);
        await harness.progress();
        await next.stop?.(id, 'op-1', signal);
        await harness.progress();
        expect((await next.get(id, signal))?.state).not.toBe('Stopped');
        if (!isDead) break;
      }
      expect(died, 'writes that were died at').toBeGreaterThan(0);
    });

    it('turns nothing on or off that is not there', async () => {
      const provider = harness.open();
      if (!powers(provider)) return;
      const id = await ensure(provider, 'uid-1');
      await provider.delete(id, signal);
      for (const gone of [id, provider.providerIDOf(request('uid-9'))]) {
        await expect(provider.reboot?.(gone, 'op-1', signal)).rejects.toSatisfy((error) =>
          isCoded(error, PROVIDER_ERRORS, 'InvalidConfig'),
        );
        await expect(provider.stop?.(gone, 'op-1', signal)).rejects.toSatisfy((error) => isCoded(error, PROVIDER_ERRORS, 'InvalidConfig'));
      }
    });

    it('lists all or fails', async () => {
      const provider = harness.open();
      const [, two] = [await ensure(provider, 'uid-1'), await ensure(provider, 'uid-2')];
      await harness.hideOne(two);
      await expect(provider.list(signal)).rejects.toSatisfy((error) => isCoded(error, PROVIDER_ERRORS));
    });

    it('reports no absence while it cannot reach the infrastructure', async () => {
      const provider = harness.open();
      const id = await ensure(provider, 'uid-1');
      await harness.cutOff();
      const calls = [
        () => provider.get(id, signal),
        () => provider.list(signal),
        () => provider.delete(id, signal),
        () => ensure(provider, 'uid-2'),
      ];
      for (const call of calls) {
        await expect(call()).rejects.toSatisfy((error) => isCoded(error, PROVIDER_ERRORS));
      }
    });

    it('refuses IDs that are not its own, and configuration that it does not know', async () => {
      const provider = harness.open();
      for (const id of ['other://x', '', `${provider.providerIDOf(request('uid-1')).split('://')[0]}:/uid-1`]) {
        await expect(provider.get(id, signal)).rejects.toSatisfy((error) => isCoded(error, PROVIDER_ERRORS, 'InvalidConfig'));
        await expect(provider.delete(id, signal)).rejects.toSatisfy((error) => isCoded(error, PROVIDER_ERRORS, 'InvalidConfig'));
      }
      expect(provider.validate({})).toEqual([]);
      expect(provider.validate({ sise: 1 }).map((each) => each.path)).toEqual(['sise']);
    });

    it('does nothing for a caller that has given up', async () => {
      const provider = harness.open();
      const given = AbortSignal.abort(new Error('given up'));
      await expect(provider.ensure(request('uid-1'), bootstrap('x'), given)).rejects.toThrow('given up');
      expect(await provider.get(provider.providerIDOf(request('uid-1')), signal)).toBeUndefined();
    });
  });
}
