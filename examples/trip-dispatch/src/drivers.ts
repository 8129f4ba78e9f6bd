/** The drivers themselves: another system in production. Each call is one atomic step there. */
export interface DriverService {
  /** Whether the driver is at work at all. */
  isAvailable(driverId: string): Promise<boolean>;
  hasActiveTrip(driverId: string): Promise<boolean>;
  /** False: the driver has another active trip. */
  startTrip(driverId: string, tripId: string): Promise<boolean>;
  endTrip(driverId: string, tripId: string): Promise<void>;
}

/** The drivers of this process. */
export class InMemoryDriverService implements DriverService {
  private readonly working = new Set<string>();
  private readonly activeTrips = new Map<string, string>();

  async isAvailable(driverId: string): Promise<boolean> {
    return this.working.has(driverId);
  }

  async hasActiveTrip(driverId: string): Promise<boolean> {
    return this.activeTrips.has(driverId);
  }

  async startTrip(driverId: string, tripId: string): Promise<boolean> {
    if (!this.activeTrips.has(driverId)) this.activeTrips.set(driverId, tripId);
    return this.activeTrips.get(driverId) === tripId;
  }

  async endTrip(driverId: string, tripId: string): Promise<void> {
    if (this.activeTrips.get(driverId) === tripId) this.activeTrips.delete(driverId);
  }

  setAvailable(...driverIds: string[]): void {
    for (const driverId of driverIds) this.working.add(driverId);
  }

  setUnavailable(driverId: string): void {
    this.working.delete(driverId);
  }
}
