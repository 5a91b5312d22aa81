import { kubeError } from '../errors.ts';
import type { CodedError } from '../../api/errors.ts';
import type { Weights } from './weights.ts';

export interface StoreBounds {
  objects: number;
  /** Length of the kept objects as JSON. */
  characters: number;
  /** Pages of one list. */
  pages: number;
  /** Shared with other stores of the same server. */
  room?: Room;
}

/** What several stores may take of memory together, in bytes as `jsonMemory` counts them. */
export interface Room {
  /** Limit of what they keep, and as much again for lists that are not complete. */
  readonly most: number;
  kept: number;
  listed: number;
}

export function createRoom(most: number): Room {
  return { most, kept: 0, listed: 0 };
}

/** `plural`: the resource that the message names. */
export function requireBounds(most: StoreBounds | undefined, plural: string, { objects, characters }: Weights, pages: number): void {
  if (most === undefined) return;
  if (objects > most.objects) throw tooLarge(`more than ${most.objects} objects of ${plural}`);
  if (characters > most.characters) throw tooLarge(`more than ${most.characters} characters of ${plural}`);
  if (pages >= most.pages) throw tooLarge(`more than ${most.pages} pages of ${plural}`);
}

/** `taken`: what all stores that share the room keep, or list. */
export function requireRoom(most: StoreBounds | undefined, plural: string, taken: (room: Room) => number): void {
  const room = most?.room;
  if (room !== undefined && taken(room) > room.most) {
    throw tooLarge(`${plural} and other kinds that take more than ${room.most} bytes of memory`);
  }
}

function tooLarge(what: string): CodedError {
  return kubeError('StoreTooLarge', `the server has ${what}: none of it is believed`);
}
