import { checkId } from './ids.js';

/** PENDING waits for a driver. What follows is over for the dispatch, and never comes back to PENDING. */
export type TripStatus = 'PENDING' | 'APPROVED' | 'COMPLETED' | 'DRIVER_NOT_FOUND' | 'CANCELLED';

export interface Trip {
  readonly id: string;
  readonly customerId: string;
  readonly tripData: TripData;
  readonly status: TripStatus;
  /** Who may be asked, the best first. */
  readonly drivers: readonly string[];
  /** Who has been asked so far. */
  readonly calledDrivers: readonly string[];
  /** Who has declined, or has not answered in time. */
  readonly rejectedDrivers: readonly string[];
  /** Who has accepted. */
  readonly driverId: string | null;
  /** Why it was cancelled, or found no driver. */
  readonly reason: string | null;
}

export interface TripData {
  readonly pickup: string;
  readonly dropoff: string;
}

/** The trips themselves: a database of its own in production. Each call is one atomic step there. */
export interface TripService {
  create(trip: Pick<Trip, 'id' | 'customerId' | 'tripData' | 'drivers'>): Promise<Trip>;
  findById(tripId: string): Promise<Trip | null>;
  /** Many with one question; the answers are in the order of the ids. */
  findByIds(tripIds: readonly string[], signal?: AbortSignal): Promise<readonly (Trip | null)[]>;
  /** Refuses a step that a trip cannot take; the status that it has already is taken again. */
  updateStatus(tripId: string, status: TripStatus, reason?: string): Promise<Trip>;
  /** Calls so many drivers that `atOnce` of them have yet to answer, as far as there are any. */
  callDrivers(tripId: string, atOnce: number): Promise<Trip>;
  /** Null: the trip is not PENDING any more, or this driver may not answer it (any more). */
  approve(tripId: string, driverId: string): Promise<Trip | null>;
  /** Null: this driver does not have the trip, or it is not under way. */
  complete(tripId: string, driverId: string): Promise<Trip | null>;
  reject(tripId: string, driverId: string): Promise<void>;
  /** True for the first who asks: he may send this notice, and nobody else. */
  takeNotice(tripId: string, notice: string): Promise<boolean>;
  /** It could not be sent. */
  giveNoticeBack(tripId: string, notice: string): Promise<void>;
}

/** Drivers who have been asked and have not answered. */
export function openCalls(trip: Trip): readonly string[] {
  return trip.calledDrivers.filter((driverId) => !trip.rejectedDrivers.includes(driverId));
}

/** Whether this driver's answer is still waited for. */
export function isAsked(trip: Trip | null, driverId: string): boolean {
  return trip?.status === 'PENDING' && openCalls(trip).includes(driverId);
}

const steps: { readonly [from in TripStatus]: readonly TripStatus[] } = {
  PENDING: ['APPROVED', 'DRIVER_NOT_FOUND', 'CANCELLED'],
  APPROVED: ['COMPLETED', 'CANCELLED'],
  DRIVER_NOT_FOUND: ['CANCELLED'],
  COMPLETED: [],
  CANCELLED: [],
};

/** The trips of this process. */
export class InMemoryTripService implements TripService {
  private readonly trips = new Map<string, Trip>();
  private readonly notices = new Set<string>();

  async create({ id, customerId, tripData, drivers }: Parameters<TripService['create']>[0]): Promise<Trip> {
    if (this.trips.has(checkId(id, 'The trip'))) throw new Error(`Trip ${id} exists already.`);
    const candidates = [...new Set(drivers)].map((driverId) => checkId(driverId, 'A driver'));
    const untouched = { calledDrivers: [], rejectedDrivers: [], driverId: null, reason: null } as const;
    return this.set({ id, customerId, tripData, drivers: candidates, status: 'PENDING', ...untouched });
  }

  async findById(tripId: string): Promise<Trip | null> {
    return this.trips.get(tripId) ?? null;
  }

  async findByIds(tripIds: readonly string[]): Promise<readonly (Trip | null)[]> {
    return tripIds.map((tripId) => this.trips.get(tripId) ?? null);
  }

  async updateStatus(tripId: string, status: TripStatus, reason?: string): Promise<Trip> {
    const trip = this.get(tripId);
    if (trip.status === status) return trip;
    if (!steps[trip.status].includes(status))
      throw new Error(`Trip ${tripId} is ${trip.status}; it cannot become ${status}.`);
    return this.set({ ...trip, status, reason: reason ?? trip.reason });
  }

  async callDrivers(tripId: string, atOnce: number): Promise<Trip> {
    const trip = this.get(tripId);
    if (trip.status !== 'PENDING') return trip;
    const uncalled = trip.drivers.filter((driverId) => !trip.calledDrivers.includes(driverId));
    const next = uncalled.slice(0, Math.max(0, atOnce - openCalls(trip).length));
    return this.set({ ...trip, calledDrivers: [...trip.calledDrivers, ...next] });
  }

  async approve(tripId: string, driverId: string): Promise<Trip | null> {
    const trip = this.trips.get(tripId) ?? null;
    if (trip?.status === 'APPROVED' && trip.driverId === driverId) return trip;
    return trip && isAsked(trip, driverId) ? this.set({ ...trip, status: 'APPROVED', driverId }) : null;
  }

  async complete(tripId: string, driverId: string): Promise<Trip | null> {
    const trip = this.trips.get(tripId) ?? null;
    if (trip?.driverId !== driverId) return null;
    if (trip.status === 'COMPLETED') return trip;
    return trip.status === 'APPROVED' ? this.set({ ...trip, status: 'COMPLETED' }) : null;
  }

  async reject(tripId: string, driverId: string): Promise<void> {
    const trip = this.trips.get(tripId) ?? null;
    if (trip && isAsked(trip, driverId)) this.set({ ...trip, rejectedDrivers: [...trip.rejectedDrivers, driverId] });
  }

  async takeNotice(tripId: string, notice: string): Promise<boolean> {
    const key = `${tripId}:${notice}`;
    if (this.notices.has(key)) return false;
    this.notices.add(key);
    return true;
  }

  async giveNoticeBack(tripId: string, notice: string): Promise<void> {
    this.notices.delete(`${tripId}:${notice}`);
  }

  /** As an operator or another system would: it is not there any more. */
  delete(tripId: string): void {
    this.trips.delete(tripId);
  }

  private get(tripId: string): Trip {
    const trip = this.trips.get(tripId);
    if (!trip) throw new Error(`There is no trip ${tripId}.`);
    return trip;
  }

  private set(trip: Trip): Trip {
    this.trips.set(trip.id, trip);
    return trip;
  }
}
