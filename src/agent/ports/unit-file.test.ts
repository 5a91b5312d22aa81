import { expect, test } from 'vitest';
import { markOf, unitFileText } from './unit-file.ts';
import type { UnitDefinition } from './units.ts';

const unit = (rest: Partial<UnitDefinition> = {}): UnitDefinition => ({
  name: 'app',
  exec: ['/bin/app', '--name', 'x'],
  environment: {},
  stopTimeoutSeconds: 7,
  hash: 'h1',
  generation: 'g1',
  ...rest,
});
const line = (text: string, directive: string): string | undefined => text.split('\n').find((each) => each.startsWith(`${directive}=`));

test('without settings it is a service of type exec that systemd never starts again by itself, and that starts at boot', () => {
  const text = unitFileText(unit(), { A: '1' });
  expect(text.split('\n').slice(7)).toEqual([
    '[Unit]',
    'Description=app, a component of KubeNode',
    'StartLimitIntervalSec=0',
    '',
    '[Service]',
    'Type=exec',
    'ExecStart="/bin/app" "--name" "x"',
    'Environment="A=1"',
    'WorkingDirectory=/',
    'KillMode=control-group',
    'TimeoutStopSec=7',
    'Restart=no',
    '',
    '[Install]',
    'WantedBy=multi-user.target',
    '',
  ]);
});

test('each setting becomes exactly its directive', () => {
  const text = unitFileText(
    unit({
      systemd: {
        type: 'notify',
        killMode: 'process',
        delegate: true,
        restart: 'always',
        restartSeconds: 5,
        startTimeoutSeconds: 300,
        oomScoreAdjust: -999,
        limitNOFILE: 'infinity',
        limitNPROC: '10',
        limitCORE: '0',
        limitMEMLOCK: '1024',
        tasksMax: '80%',
        after: ['network-online.target', 'containerd.service'],
        requires: [],
        wants: ['network-online.target'],
        slice: 'kube.slice',
      },
    }),
    {},
  );
  for (const each of [
    'Type=notify',
    'KillMode=process',
    'Delegate=yes',
    'Restart=always',
    'RestartSec=5',
    'TimeoutStartSec=300',
    'OOMScoreAdjust=-999',
    'LimitNOFILE=infinity',
    'LimitNPROC=10',
    'LimitCORE=0',
    'LimitMEMLOCK=1024',
    'TasksMax=80%',
    'After=network-online.target containerd.service',
    'Wants=network-online.target',
    'Slice=kube.slice',
  ]) {
    expect(text.split('\n')).toContain(each);
  }
  expect(line(text, 'Requires')).toBeUndefined();
});

test('no word is more than a word: no quote, specifier, variable, comment or line of its own comes of it', () => {
  const text = unitFileText(unit({ exec: ['/bin/app', '', 'a b', '%n $HOME ${X}', '"\\', 'x\nExecStartPre=/bin/evil\n#', ';', '\t'] }), {
    X: 'a\n[Unit]\n% $ "',
  });
  expect(line(text, 'ExecStart')).toBe(
    'ExecStart="/bin/app" "" "a b" "%%n $$HOME $${X}" "\\"\\\\" "x\\x0aExecStartPre=/bin/evil\\x0a#" ";" "\\x09"',
  );
  expect(line(text, 'Environment')).toBe('Environment="X=a\\x0a[Unit]\\x0a%% $ \\""');
  expect(line(text, 'ExecStartPre')).toBeUndefined();
});

test.each([
  [{ exec: ['-/bin/app'] }, {}, 'must begin with'],
  [{ exec: ['@/bin/app'] }, {}, 'must begin with'],
  [{ exec: ['+/bin/app'] }, {}, 'must begin with'],
  [{ exec: ['/bin/app', 'a\0b'] }, {}, 'zero byte'],
  [{}, { 'A B': 'x' }, 'variable "A B"'],
  [{}, { 'A=\nExecStart': 'x' }, 'variable'],
  [{ hash: 'h\nGeneration=x' }, {}, 'mark'],
])('what systemd cannot pass on is refused: %j %j', (rest, environment, message) => {
  expect(() => unitFileText(unit(rest), environment)).toThrow(
    expect.objectContaining({ code: 'UnitFailed', message: expect.stringContaining(message) }),
  );
});

test('a file records who wrote it and for what, and whether it was edited', () => {
  const text = unitFileText(unit(), {});
  expect(markOf(text)).toEqual({ hash: 'h1', generation: 'g1', stopTimeoutSeconds: 7, whole: true });
  expect(markOf(text.replace('Restart=no', 'Restart=always'))).toMatchObject({ hash: 'h1', whole: false });
  for (const other of ['', '[Unit]\nDescription=x\n', text.slice(1), text.replace('Hash=h1', 'Hash='), text.replace('\n\n', '\n')]) {
    expect(markOf(other)?.whole ?? false).toBe(false);
  }
  expect(markOf('[Unit]\nDescription=Deb\n\n[Service]\nExecStart=/bin/x\n')).toBeUndefined();
});
