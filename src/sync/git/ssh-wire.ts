/** Reads the SSH wire format (RFC 4251 §5): lengths in front, big end first. Throws RangeError at anything that is not exactly that. */
export interface SshReader {
  uint32(): number;
  uint8(): number;
  /** u32 length, then as many bytes. */
  string(): Buffer;
  /** A string that must be ASCII. */
  text(): string;
  /** A positive number without its sign byte. */
  mpint(): Buffer;
  fixed(length: number): Buffer;
  /** Nothing may be left. */
  end(): void;
}

export function sshReader(from: Buffer): SshReader {
  let at = 0;
  function fixed(length: number): Buffer {
    if (length > from.length - at) throw new RangeError('ends too early');
    at += length;
    return from.subarray(at - length, at);
  }
  const uint32 = () => fixed(4).readUInt32BE(0);
  const string = () => fixed(uint32());
  return {
    uint32,
    uint8: () => fixed(1).readUInt8(0),
    string,
    text() {
      const value = string();
      if (value.some((byte) => byte < 0x20 || byte > 0x7e)) throw new RangeError('has text that is not ASCII');
      return value.toString('latin1');
    },
    mpint() {
      const value = string();
      const [first = 0, second = 0] = value;
      if (value.length === 0 || first > 0x7f) throw new RangeError('has a number that is not positive');
      if (first !== 0) return value;
      if (value.length === 1 || second < 0x80) throw new RangeError('has a number with needless zeros');
      return value.subarray(1);
    },
    fixed,
    end() {
      if (at !== from.length) throw new RangeError('has bytes after its end');
    },
  };
}

export function sshString(value: string | Uint8Array): Buffer {
  const content = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}
