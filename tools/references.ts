/**
 * Follows every reference: links of Markdown to files and headings, and pages and rules that comments name. A rule of docs/protocols.md is named in a
 * comment by its address, `docs/protocols.md#d6`; after the first of a comment `#d6` is enough. Nothing may cite a page outside the repository by name.
 * docs/events.md names each Event that the code reports, and no other, with the files and functions where it is decided and emitted. docs/proof.md names the files of the tests that bear the number of an attack.
 *
 *   node tools/references.ts
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'rolldown/utils';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const PROTOCOLS = 'docs/protocols.md';

const problems: string[] = [];
const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: ROOT, encoding: 'utf8' })
  .split('\0')
  .filter((file) => file !== '' && existsSync(join(ROOT, file)));
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** As GitHub makes it of a heading. */
const slugOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .trim()
    .replaceAll(' ', '-');

const anchors = new Map<string, Set<string>>();
function anchorsOf(file: string): Set<string> {
  const known = anchors.get(file);
  if (known !== undefined) return known;
  const text = read(file).replaceAll(/^```[\s\S]*?^```/gm, '');
  const found = new Set<string>();
  for (const [, id = ''] of text.matchAll(/<a id="([^"]+)"><\/a>/g)) found.add(id);
  for (const [, heading = ''] of text.matchAll(/^#+ +(.+)$/gm)) {
    const slug = slugOf(heading);
    let unique = slug;
    for (let count = 1; found.has(unique); count++) unique = `${slug}-${count}`;
    found.add(unique);
  }
  anchors.set(file, found);
  return found;
}

function follow(from: string, line: number, path: string, anchor: string | undefined): void {
  const where = `${from}:${line}`;
  if (!existsSync(join(ROOT, path))) problems.push(`${where}: ${path} does not exist`);
  else if (anchor !== undefined && path.endsWith('.md') && !anchorsOf(path).has(anchor))
    problems.push(`${where}: ${path} has no #${anchor}`);
}

const lineOf = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;

/** Letter and number, as rules of docs/protocols.md have it. */
const rules = anchorsOf(PROTOCOLS);
const RULE = /(?<![\w#.-])[A-I]\d{1,2}[a-z]?(?![\w-])/g;

function checkMarkdown(file: string): void {
  const text = read(file);
  const prose = text.replaceAll(/^```[\s\S]*?^```|`[^`\n]*`/gm, (code) => code.replaceAll(/[^\n]/g, ' '));
  for (const { 1: target = '', index } of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(target)) continue;
    const [path = '', anchor] = target.split('#');
    follow(file, lineOf(text, index), path === '' ? file : relative(ROOT, join(ROOT, dirname(file), normalize(path))), anchor);
  }
  for (const { 1: path = '', index } of text.matchAll(
    /`((?:src|packages|test|tools|docs|deploy|bench)\/[\w./-]+\.(?:ts|md|sh|txt|json))`/g,
  ))
    follow(file, lineOf(text, index), path, undefined);
  // A test may be named by the end of its path.
  for (const { 1: path = '', index } of text.matchAll(/`([\w-][\w./-]*\.test\.ts)`/g))
    if (!files.some((each) => each === path || each.endsWith(`/${path}`)))
      problems.push(`${file}:${lineOf(text, index)}: there is no test ${path}`);
  if (!file.startsWith('docs/') || file === PROTOCOLS) return;
  const unlinked = prose.replaceAll(/\[[^\]]*\]\([^)]*\)/g, (link) => link.replaceAll(/[^\n]/g, ' '));
  for (const { 0: rule, index } of unlinked.matchAll(RULE)) {
    if (rules.has(rule.toLowerCase())) problems.push(`${file}:${lineOf(text, index)}: ${rule} is no link to its rule`);
  }
}

function checkComments(file: string): void {
  const text = read(file);
  for (const { value, start } of parseSync(file, text).comments) {
    const line = lineOf(text, start);
    for (const [, path = '', anchor] of value.matchAll(/(?<![\w/.])(docs\/[\w/-]+\.md)(?:#([\w-]+))?/g)) follow(file, line, path, anchor);
    for (const [, anchor = ''] of value.matchAll(/(?<![\w/.)])#([a-i]\d{1,2}[a-z]?)\b/g)) follow(file, line, PROTOCOLS, anchor);
    for (const [name] of value.matchAll(/\b(DESIGN|PROTOCOLS)\b|⊢/g)) problems.push(`${file}:${line}: "${name}" leads nowhere`);
    for (const [rule] of value.matchAll(RULE)) {
      const address = `${PROTOCOLS}#${rule.toLowerCase()}`;
      problems.push(
        `${file}:${line}: ${rules.has(rule.toLowerCase()) ? `write ${address} for ${rule}` : `${PROTOCOLS} has no rule ${rule}`}`,
      );
    }
  }
}

const EVENTS = 'docs/events.md';
/** Where the reason of an Event stands as a literal. */
const REPORTED = [/(?:happened\(\{|\.event\([^)]{0,60}?\{|events\.push\(\{)[^}]*?reason: ([^,}]+)/gs, /\b(?:normal|warning)\(('\w+')/g];

function checkEvents(): void {
  const listed = new Set([...read(EVENTS).matchAll(/^\| (`\w+`(?:, `\w+`)*)/gm)].flatMap(([, cell = '']) => cell.match(/\w+/g) ?? []));
  const production = files.filter((file) => /^src\/.*\.ts$/.test(file) && !/\.test\.ts$|testing/.test(file));
  const literals = new Set<string>();
  for (const file of production) {
    const text = read(file);
    for (const [, literal = ''] of text.matchAll(/'([A-Z]\w+)'/g)) literals.add(literal);
    for (const pattern of REPORTED)
      for (const { 1: words = '', index } of text.matchAll(pattern))
        for (const [, reason = ''] of words.matchAll(/'([A-Z]\w+)'/g))
          if (!listed.has(reason) && !words.includes(`=== '${reason}'`))
            problems.push(`${file}:${lineOf(text, index)}: ${EVENTS} does not name the Event ${reason}`);
  }
  for (const reason of listed) if (!literals.has(reason)) problems.push(`${EVENTS}: no code reports ${reason}`);
  for (const [index, row] of read(EVENTS).split('\n').entries()) if (row.startsWith('| `')) checkEventRow(row, `${EVENTS}:${index + 1}`);
}

/** The last two cells name where it is decided, with the functions, and where it is emitted. One of these files has the reason as a literal. */
function checkEventRow(row: string, where: string): void {
  const cells = row.split(' | ');
  const reasons = cells[0]?.match(/(?<=`)\w+(?=`)/g) ?? [];
  const [decided = '', emitted = ''] = cells.slice(-2);
  const texts: string[] = [];
  for (const [, path = '', names = ''] of `${decided} ${emitted}`.matchAll(/`(src\/[\w./-]+\.ts)`(?: \(([^)]*)\))?/g)) {
    if (!existsSync(join(ROOT, path))) continue;
    texts.push(read(path));
    for (const name of names.match(/\w+/g) ?? [])
      if (!new RegExp(`\\b(?:function|const) ${name}\\b`).test(read(path))) problems.push(`${where}: ${path} has no function ${name}`);
  }
  for (const cell of [decided, emitted]) if (!/`src\/[^`]+\.ts`/.test(cell)) problems.push(`${where}: name the file`);
  for (const reason of reasons)
    if (!texts.some((text) => text.includes(`'${reason}'`))) problems.push(`${where}: none of its files has '${reason}'`);
}

const PROOF = 'docs/proof.md';

/** Numbers of attacks that came through once: each row of the table has its tests, in the files that it names, and each such test has its row. */
function checkAttacks(): void {
  const listed = new Set<string>();
  for (const [row, name = ''] of read(PROOF).matchAll(/^\| `((?:safety|security) \d+)` \|.*$/gm)) {
    const named = row.match(/`[\w/.-]+\.test\.ts`/g) ?? [];
    if (named.length === 0) problems.push(`${PROOF}: ${name} names no test`);
    for (const file of named) listed.add(`${name} in ${file.slice(1, -1)}`);
  }
  const tested = new Set<string>();
  for (const file of files.filter((each) => each.endsWith('.test.ts')))
    for (const [, names = ''] of read(file).matchAll(/['"`]((?:(?:safety|security) \d+(?:, )?)+)[:A-Z]/g))
      for (const name of names.match(/\w+ \d+/g) ?? []) tested.add(`${name} in ${file}`);
  for (const each of listed) if (!tested.has(each)) problems.push(`${PROOF}: there is no test ${each}`);
  for (const each of tested) if (!listed.has(each)) problems.push(`${PROOF} does not list ${each}`);
}

checkEvents();
checkAttacks();
for (const file of files) {
  if (file.endsWith('.md')) checkMarkdown(file);
  else if (file.endsWith('.ts')) checkComments(file);
}
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
