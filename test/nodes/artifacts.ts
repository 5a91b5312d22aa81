/** What nodes fetch: Debian's containerd, runc and CNI plugins, and node-problem-detector, in the form of their publishers, kubelets, and an image for pods. Served on the bridge. */
import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { archiveOf } from '../../src/cli/agent-package/archive.ts';
import { DETECTOR, KUBELETS } from '../../tools/nodes/programs.ts';
import { command } from './command.ts';
import type { NodesControlPlane } from './control-plane.ts';

export interface Artifacts {
  /** Ends with a slash. */
  readonly mirror: string;
  readonly versions: { readonly containerd: string; readonly runc: string; readonly cni: string; readonly detector: string };
  readonly sha256: Readonly<Record<'containerd' | 'runc' | 'cni' | 'detector' | `kubelet-${string}`, string>>;
  /** A docker-archive with `local/pod:1`. */
  readonly image: string;
  /** Puts bytes under a path of the mirror; returns their digest. */
  put(path: string, bytes: Buffer): string;
  close(): Promise<void>;
}

/** The upstream part of a Debian version. */
async function versionOf(name: string): Promise<string> {
  const text = await command(['dpkg-query', '--show', '--showformat=${Version}', name]);
  const version = /^(?:\d+:)?(\d+(?:\.\d+)+)/.exec(text)?.[1];
  if (version === undefined) throw new Error(`${name} has the version ${text}`);
  return version;
}

const packed = (files: [name: string, path: string][]): Buffer =>
  gzipSync(Buffer.concat(archiveOf(files.map(([name, path]) => ({ name, mode: 0o755, content: readFileSync(path) })))), { level: 1 });

export async function serveArtifacts(
  folder: string,
  address: string,
  { programs, serving }: Pick<NodesControlPlane, 'programs' | 'serving'>,
): Promise<Artifacts> {
  const at = join(folder, 'mirror');
  const put = (path: string, bytes: Buffer): string => {
    mkdirSync(dirname(join(at, path)), { recursive: true });
    writeFileSync(join(at, path), bytes);
    return createHash('sha256').update(bytes).digest('hex');
  };
  const [containerd, runc, cni] = await Promise.all([versionOf('containerd'), versionOf('runc'), versionOf('containernetworking-plugins')]);
  const plugins = readdirSync('/usr/lib/cni').map((name): [string, string] => [name, join('/usr/lib/cni', name)]);
  const sha256: Record<string, string> = {
    containerd: put(
      `containerd/v${containerd}/containerd-${containerd}-linux-amd64.tar.gz`,
      packed(['containerd', 'containerd-shim-runc-v2', 'ctr'].map((name) => [`bin/${name}`, `/usr/bin/${name}`])),
    ),
    runc: put(`runc/v${runc}/runc.amd64`, readFileSync('/usr/sbin/runc')),
    detector: put(
      `npd/v${DETECTOR}/node-problem-detector-v${DETECTOR}-linux_amd64.tar.gz`,
      packed([['bin/node-problem-detector', programs.detector]]),
    ),
    cni: put(`cni/v${cni}/cni-plugins-linux-amd64-v${cni}.tgz`, packed(plugins)),
  };
  for (const version of KUBELETS) {
    sha256[`kubelet-${version}`] = put(`kubelet/v${version}/bin/linux/amd64/kubelet`, readFileSync(programs.kubelets[version]));
  }
  const server = createServer(serving, (request, response) => {
    const path = join(at, new URL(request.url ?? '/', 'http://x').pathname);
    const found = path.startsWith(`${at}/`) ? statSync(path, { throwIfNoEntry: false }) : undefined;
    if (found?.isFile() !== true) return response.writeHead(404).end();
    response.writeHead(200, { 'content-length': found.size });
    return createReadStream(path).pipe(response);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, address, resolve);
  });
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('no port');
  return {
    mirror: `https://${address}:${bound.port}/`,
    versions: { containerd, runc, cni, detector: DETECTOR },
    sha256: sha256 as Artifacts['sha256'],
    image: dockerArchive(join(folder, 'pod.tar'), programs.pod),
    put,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

/** An image of one static program, as `ctr images import` takes it. */
function dockerArchive(path: string, program: string): string {
  const layer = Buffer.concat(archiveOf([{ name: 'pod', mode: 0o755, content: readFileSync(program) }]));
  const digest = createHash('sha256').update(layer).digest('hex');
  const config = {
    architecture: 'amd64',
    os: 'linux',
    config: { Entrypoint: ['/pod'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${digest}`] },
    history: [{ created: '2026-01-01T00:00:00Z' }],
  };
  const manifest = [{ Config: 'config.json', RepoTags: ['docker.io/local/pod:1'], Layers: ['layer.tar'] }];
  const file = (name: string, content: Buffer) => ({ name, mode: 0o644, content });
  const files = [
    file('config.json', Buffer.from(JSON.stringify(config))),
    file('layer.tar', layer),
    file('manifest.json', Buffer.from(JSON.stringify(manifest))),
  ];
  writeFileSync(path, Buffer.concat(archiveOf(files)));
  return path;
}
