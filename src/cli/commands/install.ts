import { readFileSync } from 'node:fs';
import { Option, type Command } from 'commander';
import { stringify } from 'yaml';
import { keyLine, parseKeys } from '../../api/component-key.ts';
import { messageOf, type CodedError } from '../../api/errors.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { requireDomains } from '../node-domains.ts';
import { EXIT } from '../exit.ts';
import { version, type RunCommand } from '../program.ts';
import { manifests, type InstallOptions } from '../manifests.ts';
import type { Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import { cliError } from '../errors.ts';

interface Flags {
  hub?: boolean;
  cell?: boolean;
  namespace: string;
  image?: string;
  replicas: string;
  server?: string;
  mirror?: string;
  reservedNodeNames?: string[];
  nodeDomains?: string[];
  seccompProfile?: string;
  componentKeys?: string;
  output: 'yaml' | 'json';
}

export function installCommand(program: Command, run: RunCommand): void {
  program
    .command('install')
    .description('print the manifests that make a cluster a hub or a cell: kinds, rights, admission policies, controllers')
    .addOption(new Option('--hub', 'the hub: fleets and rollouts'))
    .addOption(new Option('--cell', 'a cell: machines and their components').conflicts('hub'))
    .option('--namespace <name>', "where KubeNode's own processes run", SYSTEM_NAMESPACE)
    .option('--image <image>', `image of the controllers; none is published, deploy/Dockerfile makes one (default: kubenode:${version()})`)
    .option('--replicas <count>', 'number of replicas; one leads', '2')
    .option('--server <url>', 'how nodes reach this API server: https://host:port (cell)')
    .option('--mirror <url>', 'where new nodes resolve relative artifact URLs (cell)')
    .option(
      '--reserved-node-names <names...>',
      'names of Nodes that KubeNode does not manage, where * stands for any characters, like those of the control plane (cell)',
    )
    .option(
      '--node-domains <domains...>',
      'domains of Nodes, like nodes.example: below them imported machines, and those made by hand, get serving certificates for names with dots (cell)',
    )
    .option(
      '--seccomp-profile <file>',
      "deploy/seccomp.json below the kubelet's seccomp folder on the nodes of the hub; without it the hub refuses to render (hub)",
    )
    .option('--component-keys <file>', 'public keys that new nodes pin: they run only components that one of them has signed (cell)')
    .addOption(outputFlag(['yaml', 'json'], 'of what is printed').default('yaml'))
    .addHelpText(
      'after',
      `
Nothing is changed: apply what is printed.
  kubenode install --hub --image IMAGE | kubectl apply --server-side -f -
  kubenode install --cell --image IMAGE --server https://api.example:6443 | kubectl apply --server-side -f -
One cluster may be both. docs/install.md goes through it step by step.`,
    )
    .action((flags: Flags) => run((output) => install(flags, output)));
}

/** kubectl reads YAML 1.1, where a bare `no` is false. */
const FOR_KUBECTL = { lineWidth: 0, compat: 'yaml-1.1' } as const;

async function install(flags: Flags, output: Output): Promise<number> {
  const options = installOptions(flags);
  const objects = await manifests(options);
  if (options.role === 'hub' && options.seccompProfile === undefined)
    output.report(
      'warning',
      'without --seccomp-profile pods make no namespaces, and this hub refuses to render: docs/security.md explains what to choose',
    );
  if (options.role === 'cell' && options.server === undefined)
    output.report('warning', 'without --server new nodes get an address that only pods reach');
  output.print(
    flags.output === 'json'
      ? JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }, null, 2)
      : objects.map((object) => stringify(object, FOR_KUBECTL)).join('---\n'),
  );
  return EXIT.ok;
}

/** Errors: `Usage`. */
function installOptions({
  hub,
  cell,
  namespace,
  image = `kubenode:${version()}`,
  replicas,
  server,
  mirror,
  reservedNodeNames,
  nodeDomains,
  seccompProfile,
  componentKeys,
}: Flags): InstallOptions {
  const usage = (message: string, next?: string): CodedError => cliError('Usage', message, next === undefined ? {} : { next });
  if (hub !== true && cell !== true)
    throw usage('choose what this cluster shall be: --hub or --cell', 'kubenode install --cell --server https://HOST:PORT');
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(namespace))
    throw usage(`\`--namespace\` must be the name of a namespace (lower-case letters, digits and "-"), got "${namespace}"`);
  if (!/^[^\s:/@]+[^\s]*$/.test(image)) throw usage(`\`--image\` must name an image, got "${image}"`);
  if (!/^([1-9]|10)$/.test(replicas)) throw usage(`\`--replicas\` must be a whole number from 1 to 10, got "${replicas}"`);
  if (hub === true && server !== undefined) throw usage('--server is for --cell: no node is installed from a hub');
  if (hub === true && mirror !== undefined) throw usage('--mirror is for --cell: no node is installed from a hub');
  if (hub === true && reservedNodeNames !== undefined) throw usage('--reserved-node-names is for --cell: a hub makes no Nodes');
  if (hub === true && nodeDomains !== undefined) throw usage('--node-domains is for --cell: a hub makes no Nodes');
  if (hub === true && componentKeys !== undefined) throw usage('--component-keys is for --cell: a hub makes no nodes');
  const odd = reservedNodeNames?.find((each) => !/^[a-z0-9*]([-a-z0-9.*]*[a-z0-9*])?$/.test(each));
  if (odd !== undefined) throw usage(`\`--reserved-node-names\` must be names of Nodes, where * stands for any characters, got "${odd}"`);
  requireDomains(nodeDomains);
  if (cell === true && seccompProfile !== undefined) throw usage('--seccomp-profile is for --hub: a cell runs no code of a commit');
  if (seccompProfile !== undefined && (!/^[^/\s][^\s]*$/.test(seccompProfile) || seccompProfile.split('/').includes('..')))
    throw usage(`\`--seccomp-profile\` must be a path below the kubelet's seccomp folder, got "${seccompProfile}"`);
  if (server !== undefined && !/^https:\/\/[^/?#\s]+\/?$/.test(server))
    throw usage(`\`--server\` must be https://host:port, got "${server}"`);
  if (mirror !== undefined && !/^https?:\/\/[^\s]+\/$/.test(mirror))
    throw usage(`\`--mirror\` must be a URL that ends with a slash, got "${mirror}"`);
  return {
    role: hub === true ? 'hub' : 'cell',
    namespace,
    image,
    replicas: Number(replicas),
    ...(server === undefined ? {} : { server }),
    ...(mirror === undefined ? {} : { mirror }),
    ...(componentKeys === undefined ? {} : { componentKeys: keysOf(componentKeys) }),
    ...(reservedNodeNames === undefined ? {} : { reservedNodeNames }),
    ...(nodeDomains === undefined ? {} : { nodeDomains }),
    ...(seccompProfile === undefined ? {} : { seccompProfile }),
  };
}

/** Errors: `Usage`, `KeysInvalid`. */
function keysOf(path: string): string[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw cliError('Usage', `\`--component-keys\`: ${path} cannot be read: ${messageOf(error)}`, { cause: error });
  }
  return parseKeys(text, path).map(({ key, comment }) => keyLine(key, comment));
}
