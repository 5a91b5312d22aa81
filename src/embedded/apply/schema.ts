/** How the fields of a kind merge; made by `schemaOf`, opaque to callers. */
export type FieldSchema = {
  readonly node: object;
};
