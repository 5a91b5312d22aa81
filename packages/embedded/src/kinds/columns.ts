import type { Column } from './served.ts';

export const NAME: Column = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'Name must be unique within a namespace.',
};

export const AGE: Column = { name: 'Age', type: 'string', description: 'Time since the object was created.' };

export const column = (name: string, description: string, type: Column['type'] = 'string'): Column => ({ name, type, description });

/** Shown with `-o wide`. */
export const wide = (name: string, description: string): Column => ({ name, type: 'string', description, priority: 1 });
