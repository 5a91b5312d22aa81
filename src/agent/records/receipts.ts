import { canonical, sha256Hex } from '../../api/digest.ts';
import type { Durable } from '../disk/durable.ts';
import { agentError } from '../errors.ts';
import { componentLayout } from '../disk/layout.ts';
import type { DiskLayout } from '../disk/layout.ts';

/** The record that a generation is installed: written after all other files of it, removed when no file of it is left. */
export interface Receipt {
  machineUID: string;
  name: string;
  version: string;
  values: Record<string, unknown>;
  labels: Record<string, string>;
  content: string;
  revision: number;
  generation: string;
  previous?: { generation: string; version: string };
  /** Wall time, ms. */
  switchedAt: number;
}

/** Errors: those of the disk. */
export async function writeReceipt(durable: Durable, layout: DiskLayout, receipt: Receipt): Promise<void> {
  await durable.replace(componentLayout(layout, receipt.name).receipt, receiptText(receipt), 0o600);
}

/** As it is kept: with its checksum in front. */
export function receiptText(receipt: Receipt): string {
  const text = canonical(receipt);
  return `${sha256Hex(text)}\n${text}\n`;
}

export async function removeReceipt(durable: Durable, layout: DiskLayout, name: string): Promise<void> {
  await durable.remove(componentLayout(layout, name).receipt);
}

/** All receipts of this disk, of whichever machine. Errors: `ReceiptDamaged`. */
export async function loadReceipts(durable: Durable, layout: DiskLayout): Promise<Receipt[]> {
  const { files } = durable;
  const receipts: Receipt[] = [];
  for (const name of await files.list(layout.components)) {
    const paths = componentLayout(layout, name);
    const bytes = await files.read(paths.receipt);
    // The receipt and the generations that are found here are acted on and reported; the process that renamed them may have been killed before their
    // names were durable.
    await files.sync(paths.folder);
    if (bytes === undefined) continue;
    const [sum, text = ''] = bytes.toString().split('\n');
    if (sum !== sha256Hex(text)) {
      throw agentError('ReceiptDamaged', `${paths.receipt} does not match its checksum`, {
        next: 'remove the file: the component is installed again',
      });
    }
    receipts.push(JSON.parse(text) as Receipt);
  }
  return receipts;
}
