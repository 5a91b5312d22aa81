/** What a promise was rejected with; an error of its own when it was not. Asked for before the rejection, it keeps it from being unhandled. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('the promise was resolved, not rejected');
}
